// yes waits for room in its output: nothing reads it before the wait for its end.
public class JavaWait {
    public static void main(String[] arguments) throws Exception {
        System.out.println(new ProcessBuilder("yes").start().waitFor());
    }
}
