// cat waits for a request that lies in the writer's buffer, and java for the answer.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;

public class JavaUnflushed {
    public static void main(String[] arguments) throws Exception {
        Process child = new ProcessBuilder("cat").start();
        OutputStreamWriter request = new OutputStreamWriter(child.getOutputStream());
        request.write("request\n");
        System.out.println(new BufferedReader(new InputStreamReader(child.getInputStream())).readLine());
    }
}
