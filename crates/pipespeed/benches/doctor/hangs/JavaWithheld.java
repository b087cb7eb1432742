// The end of the output is withheld by sleep, in the background.
public class JavaWithheld {
    public static void main(String[] arguments) throws Exception {
        Process child = new ProcessBuilder("sh", "-c", "sleep 1000 & echo started").start();
        System.out.println(new String(child.getInputStream().readAllBytes()));
    }
}
